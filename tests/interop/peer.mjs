// SPDX-License-Identifier: Apache-2.0
// The other side of the interop test: does each job of a JSON array with the library it names, and answers an array.
import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { signRequest, verifyRequest } from "@fedify/fedify/sig";
import * as misskey from "@misskey-dev/node-http-message-signatures";
import joyent from "http-signature";
import peertube from "@peertube/http-signature";

const SPECS = { cavage: "draft-cavage-http-signatures-12", rfc9421: "rfc9421" };

function actor(job) {
  const id = job.key_id.split("#")[0];
  return {
    "@context": ["https://www.w3.org/ns/activitystreams", "https://w3id.org/security/v1"],
    id,
    type: "Person",
    inbox: `${id}/inbox`,
    publicKey: { id: job.key_id, type: "CryptographicKey", owner: id, publicKeyPem: job.public_pem },
  };
}

function request(job) {
  return new Request(job.url, { method: job.method, headers: job.headers, body: job.body ?? undefined });
}

function incoming(job) {
  const target = new URL(job.url);
  const headers = Object.fromEntries(job.headers.map(([name, value]) => [name.toLowerCase(), value]));
  return { method: job.method, url: target.pathname + target.search, headers, httpVersion: "1.1" };
}

const libraries = {
  fedify: {
    async verify(job) {
      const documentLoader = async (url) => ({ contextUrl: null, documentUrl: url, document: actor(job) });
      return (await verifyRequest(request(job), { documentLoader })) != null;
    },
    async sign(job) {
      const der = createPrivateKey(job.private_pem).export({ type: "pkcs8", format: "der" });
      const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
      const key = await crypto.subtle.importKey("pkcs8", der, algorithm, true, ["sign"]);
      const signed = await signRequest(request(job), key, new URL(job.key_id), { spec: SPECS[job.scheme] });
      return [...signed.headers];
    },
  },
  misskey: {
    async verify(job) {
      const message = incoming(job);
      if (job.body && (await misskey.verifyDigestHeader(message, job.body)) !== true) return false;
      return misskey.verifyDraftSignature(misskey.parseRequestSignature(message).value, job.public_pem);
    },
    async sign(job) {
      const message = { ...incoming(job), url: job.url, headers: Object.fromEntries(job.headers), body: job.body };
      message.headers.Date = new Date().toUTCString();
      message.headers.Host = new URL(job.url).host;
      const names = ["(request-target)", "host", "date"];
      if (job.body) {
        message.headers.Digest = await misskey.genRFC3230DigestHeader(job.body, "SHA-256");
        names.push("digest");
      }
      await misskey.signAsDraftToRequest(message, { keyId: job.key_id, privateKeyPem: job.private_pem }, names);
      return Object.entries(message.headers);
    },
  },
};

for (const [name, library] of Object.entries({ joyent, peertube })) {
  libraries[name] = {
    async verify(job) {
      const parsed = library.parseRequest(incoming(job), { authorizationHeaderName: "signature" });
      return library.verifySignature(parsed, job.public_pem);
    },
    async sign(job) {
      // These sign a ClientRequest; what they ask of it is this much.
      const target = new URL(job.url);
      const headers = new Map(job.headers.map(([field, value]) => [field.toLowerCase(), value]));
      headers.set("host", target.host).set("date", new Date().toUTCString());
      const names = ["(request-target)", "host", "date"];
      if (job.body) {
        headers.set("digest", await misskey.genRFC3230DigestHeader(job.body, "SHA-256"));
        names.push("digest");
      }
      const client = {
        method: job.method,
        path: target.pathname + target.search,
        getHeader: (field) => headers.get(field.toLowerCase()),
        setHeader: (field, value) => headers.set(field.toLowerCase(), value),
      };
      const options = { key: job.private_pem, keyId: job.key_id, headers: names, authorizationHeaderName: "Signature" };
      library.sign(client, options);
      return [...headers];
    },
  };
}

const answers = [];
for (const job of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    createPublicKey(job.public_pem); // whatever the library does, the key is one that OpenSSL reads
    answers.push({ answer: await libraries[job.library][job.do](job) });
  } catch (error) {
    answers.push({ error: `${error.name}: ${error.message}` });
  }
}
console.log(JSON.stringify(answers));
