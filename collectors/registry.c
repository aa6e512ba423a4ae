/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/metric.h"
