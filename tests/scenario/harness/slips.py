# SPDX-License-Identifier: Apache-2.0
"""Typing errors of one letter."""


def slips(name):
    """One letter wrong, missing, doubled or swapped with its neighbour, and another case."""
    middle = len(name) // 2
    found = [name[:middle] + "x" + name[middle + 1:], name[:middle] + name[middle + 1:], name[:middle] + name[middle] + name[middle:],
             name[:middle - 1] + name[middle] + name[middle - 1] + name[middle + 1:], name.upper()]
    return [slip for slip in found if slip != name]
