# SPDX-License-Identifier: Apache-2.0
"""The queue in MongoDB: the only place that speaks to the database.

A module is one noun of the data model or one verb of the queue's protocol (docs/architecture.md, rules A to G).
"""
