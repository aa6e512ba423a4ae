/* SPDX-License-Identifier: Apache-2.0 */
/* What a collector of the process has beside its metrics. The thread that makes or frees it. */
#ifndef PROM_PROCESS_H
#define PROM_PROCESS_H

struct prom_process;

void prom_process_free(struct prom_process **process);

#endif
