import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runProgramSync } from "@svc/runtime/programs";

/** A key, and a certificate for `name` that nobody vouches for, as PEM. */
export function newCertificate(name: string): { key: string; cert: string } {
  const dir = mkdtempSync(join(tmpdir(), "svc-certificate-"));
  try {
    const [key, cert] = [join(dir, "key.pem"), join(dir, "certificate.pem")];
    const about = ["-subj", "/", "-addext", `subjectAltName=critical,DNS:${name}`, "-days", "30"];
    const made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert];
    runProgramSync(["openssl", "req", "-x509", ...made, ...about], { stdio: "ignore" });
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
