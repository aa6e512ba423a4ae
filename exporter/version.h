/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_VERSION_H
#define EXPORTER_VERSION_H

/* "MAJOR.MINOR.PATCH"; static. */
const char *exporter_version(void);

#endif
