/* SPDX-License-Identifier: Apache-2.0 */
/* handoffctl: the command line's entry. */
int main(void)
{
    return 0;
}
