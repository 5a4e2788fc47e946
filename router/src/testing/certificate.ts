import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { type Certificate, CertificateSchema } from "@svc/proto/edge";
import { runProgramSync } from "@svc/runtime/programs";

/** A certificate that nobody vouches for, as control would tell it. Each has a key of its own. */
export function aCertificate(name: string, days = 30): Certificate {
  const dir = mkdtempSync(join(tmpdir(), "svc-certificate-"));
  try {
    const [key, certificate] = [join(dir, "key.pem"), join(dir, "certificate.pem")];
    const about = ["-subj", "/", "-addext", `subjectAltName=critical,DNS:${name}`, "-days", String(days)];
    const made = [
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-keyout",
      key,
      "-out",
      certificate,
    ];
    runProgramSync(["openssl", "req", "-x509", ...made, ...about], { stdio: "ignore" });
    return create(CertificateSchema, {
      name,
      chain: readFileSync(certificate, "utf8"),
      privateKey: readFileSync(key, "utf8"),
    });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
