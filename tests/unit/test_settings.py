# SPDX-License-Identifier: Apache-2.0
"""Flags over variables over the file over defaults, and one line for each mistake."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from ojak.config import DelivererConfig
from ojak.errors import ConfigError
from ojak.settings import load_settings, settings_class, unknown_variables


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_are_those_of_the_deliverer() -> None:
    settings = load_settings({})
    # The supervisor's workers raise their concurrency by themselves (SPEC section 2).
    assert settings.deliverer_config() == DelivererConfig(concurrency_max=256)
    assert settings.data == Path("ojak-data")
    assert settings.url() is None
    assert settings.workers >= 1


def test_flags_go_over_variables_and_variables_over_the_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "ojak.toml").write_text('workers = 3\ndatabase = "file"\nlog_level = "error"\nper_host = 4\n')
    monkeypatch.setenv("OJAK_DATABASE", "variable")
    monkeypatch.setenv("OJAK_LOG_LEVEL", "warning")
    settings = load_settings({"log_level": "debug"})
    assert (settings.workers, settings.database, settings.log_level) == (3, "variable", "debug")
    assert settings.deliverer_config().per_host == 4


def test_lists_are_separated_by_commas_and_are_lists_in_the_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = (ip_network("127.0.0.0/8"), ip_network("fd00::/8"))
    monkeypatch.setenv("OJAK_RETRY_STATUSES", "404, 418")
    assert load_settings({"allow_networks": "127.0.0.0/8,fd00::/8"}).allow_networks == networks
    assert load_settings({}).deliverer_config().retry_statuses == {404, 418}
    (empty_folder / "other.toml").write_text('allow_networks = ["127.0.0.0/8", "fd00::/8"]\nfinal_statuses = [501]\n')
    settings = load_settings({}, config=Path("other.toml"))
    assert settings.allow_networks == networks
    assert settings.deliverer_config().final_statuses == {501}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"workers": "many"}, "--workers is 'many'; allowed is a whole number from 1 to 256"),
        ({"app": "shop"}, "--app is 'shop'; allowed is module:factory"),
        ({"app": "os.path:join; x"}, "--app is 'os.path:join; x'; allowed is module:factory"),
        ({"log_level": "loud"}, "--log-level is 'loud'; allowed is debug, info, warning or error"),
        (
            {"allow_networks": "10.0.0.1/8"},
            "--allow-networks is '10.0.0.1/8'; allowed is networks such as 10.0.0.0/8, separated by commas",
        ),
        ({"mongod_cache_gb": "0.1"}, "--mongod-cache-gb is '0.1'; allowed is 0.25 to 1024 GB"),
        (
            {"instance_url": "ftp://x"},
            "--instance-url is 'ftp://x'; allowed is an http or https URL",
        ),
        ({"user_agent": "a\r\nb"}, "--user-agent is 'a\\r\\nb'; allowed is 1 to 500 printable ASCII characters"),
        ({"per_host": "0"}, "--per-host is 0; allowed is 1 to 64 deliveries at a time to one host"),
        ({"first_scheme": "rot13"}, "--first-scheme is 'rot13'; allowed is 'cavage' or 'rfc9421'"),
        ({"retry_statuses": "x"}, "--retry-statuses is 'x'; allowed is whole numbers, separated by commas"),
        ({"per_host": "x"}, "--per-host is 'x'; allowed is a whole number"),
    ],
)
def test_a_mistake_names_flag_value_and_what_is_allowed(flags: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(flags)
    assert str(raised.value) == message


def test_each_mistake_has_its_line_and_its_origin(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "ojak.toml").write_text("wrokers = 3\nworkers = 0\n")
    monkeypatch.setenv("OJAK_DATABASE", "a b")
    with pytest.raises(ConfigError) as raised:
        load_settings({"log_format": "xml"})
    assert sorted(str(raised.value).splitlines()) == [
        "--log-format is 'xml'; allowed is text or json",
        "OJAK_DATABASE is 'a b'; allowed is 1 to 63 of A-Z a-z 0-9 _ -",
        "workers in ojak.toml is 0; allowed is a whole number from 1 to 256",
        "wrokers in ojak.toml is not a setting; `ojak supervisor --help` lists them",
    ]


def test_a_file_that_is_not_there_or_no_toml_is_named(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"configuration file 'none\.toml' is not there"):
        load_settings({}, config=Path("none.toml"))
    (empty_folder / "bad.toml").write_text("workers =")
    monkeypatch.setenv("OJAK_CONFIG", "bad.toml")
    with pytest.raises(ConfigError, match=r"configuration file 'bad\.toml' is no TOML: Invalid value"):
        load_settings({})


def test_the_password_of_the_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OJAK_MONGO_URL", "mongodb://me:hush@host")
    settings = load_settings({})
    assert settings.url() == "mongodb://me:hush@host"
    assert "hush" not in repr(settings)
    assert "hush" not in str(settings)


def test_the_url_can_come_from_a_file(empty_folder: Path) -> None:
    (empty_folder / "url").write_text("mongodb://me:hush@host\n")
    assert load_settings({"mongo_url_file": "url"}).url() == "mongodb://me:hush@host"
    with pytest.raises(ConfigError, match="mongo_url_file is 'none'; allowed is a readable file"):
        load_settings({"mongo_url_file": "none"}).url()
    with pytest.raises(ConfigError, match="mongo_url and mongo_url_file are both given"):
        load_settings({"mongo_url_file": "url", "mongo_url": "mongodb://x"}).url()


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_url_is_refused_and_means_no_embedded_server(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    (empty_folder / "url").write_text(empty)
    with pytest.raises(ConfigError, match=r"mongo_url_file is 'url', which is empty; allowed is .* or leave it out"):
        load_settings({"mongo_url_file": "url"}).url()
    for name, allowed in (("mongo_url", "a MongoDB URL"), ("mongo_url_file", "a file's path")):
        with pytest.raises(
            ConfigError, match=rf"^--{name.replace('_', '-')} is empty; allowed is {allowed}.* or leave it out"
        ):
            load_settings({name: empty})
        with monkeypatch.context() as patch:
            patch.setenv(f"OJAK_{name.upper()}", empty)
            with pytest.raises(ConfigError, match=rf"^OJAK_{name.upper()} is empty; allowed is {allowed}"):
                load_settings({})
    (empty_folder / "ojak.toml").write_text('mongo_url = ""\n')
    with pytest.raises(ConfigError, match=r"^mongo_url in ojak\.toml is empty; allowed is a MongoDB URL"):
        load_settings({})


def test_a_misspelt_variable_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OJAK_WROKERS", "3")
    monkeypatch.setenv("OJAK_CONFIG", "")
    assert unknown_variables() == ["OJAK_WROKERS"]


def test_every_setting_says_what_it_is() -> None:
    for name, field in settings_class().model_fields.items():
        assert field.description, name
        assert isinstance(field.json_schema_extra, dict), name
        assert field.json_schema_extra["allowed"], name
