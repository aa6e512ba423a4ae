# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the tests' own, made with openssl(1). Its certificates have what RFC 5280 asks for,
since Python from 3.13 on refuses others."""

import pathlib
import subprocess


class Authority:
    """Makes certificates in a folder."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.path = self.folder / f"{name}.crt"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "2", "-subj", f"/CN=test {name}",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout",
                self.folder / f"{name}.key", "-out", self.path)

    def issue(self, name, san, usage="serverAuth", days=2):
        """Paths of a certificate and its key. 0 days: it has expired; newer openssl(1) refuses fewer."""
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={san}\nextendedKeyUsage={usage}\nkeyUsage=digitalSignature\n"
                              "authorityKeyIdentifier=keyid\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-days", days, "-in", request, "-CA", self.path, "-CAkey",
                self.folder / f"{self.name}.key", "-CAcreateserial", "-extfile", extensions,
                "-out", cert)
        return cert, key


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
