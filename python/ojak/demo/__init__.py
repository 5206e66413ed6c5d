# SPDX-License-Identifier: Apache-2.0
"""The main job, to be watched: real activities to two hundred hosts of every temper, and an account of the whole."""
