/* SPDX-License-Identifier: Apache-2.0 */
/* handoff-exporter: the daemon's entry. */
int main(void)
{
    return 0;
}
