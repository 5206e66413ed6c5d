# SPDX-License-Identifier: Apache-2.0
"""The frozen values that cross from one module to the next."""
