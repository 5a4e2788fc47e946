import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import { identityOfAltName } from "@svc/proto/daemon-identity";
import { databaseProxyFiles } from "@svc/proto/database-proxy";
import { entranceFiles } from "@svc/proto/entrances";
import type { Log } from "../log.ts";

/** What this machine's proxy shows to others, and by what it knows them. */
export interface Credentials {
  clusterId: string;
  /** PEM: the chain with the leaf first, its key, and every authority to trust. */
  pem: Pem;
  context: SecureContext;
  /** What it shows to edges; null while it has nothing that names its address. */
  entrance: Pem | null;
}

interface Pem {
  cert: string;
  key: string;
  ca: string;
}

const { certificate, key, ca } = databaseProxyFiles;
export const credentialFiles = { cert: certificate, key, ca } as const;

/** Credentials that are read again when their files have changed. */
export interface CredentialStore {
  /** Null as long as there are none. */
  current(): Credentials | null;
  /** Hears of each one from now on. */
  onChange(hear: (credentials: Credentials) => void): void;
  /** Looks at the files. Those that do not fit together, as while they are being replaced, change nothing. */
  refresh(): Promise<void>;
}

export function createCredentialStore(dir: string, log: Log): CredentialStore {
  let current: Credentials | null = null;
  let seen = "";
  const listeners: ((credentials: Credentials) => void)[] = [];
  return {
    current: () => current,
    onChange: (hear) => void listeners.push(hear),
    async refresh() {
      const pem = await readPems(dir);
      const entranceCert = await readFile(join(dir, entranceFiles.certificate), "utf8").catch(() => null);
      const mark = JSON.stringify([pem, entranceCert]);
      if (pem === null || mark === seen) return;
      seen = mark;
      try {
        current = open(pem, entranceCert, log);
      } catch (err) {
        return log.error({ err }, "the certificate for other proxies cannot be used: what was read before stays");
      }
      for (const hear of listeners) hear(current);
      log.info("there is a certificate for other proxies");
    },
  };
}

async function readPems(dir: string): Promise<Pem | null> {
  const read = (name: keyof typeof credentialFiles) => readFile(join(dir, credentialFiles[name]), "utf8");
  const [cert, key, ca] = await Promise.all(
    [read("cert"), read("key"), read("ca")].map((each) => each.catch(() => null)),
  );
  return cert == null || key == null || ca == null ? null : { cert, key, ca };
}

function open(pem: Pem, entranceCert: string | null, log: Log): Credentials {
  const identity = identityOfAltName(new X509Certificate(pem.cert).subjectAltName);
  if (identity?.role !== "node") throw new Error("the certificate is not a node's");
  // Throws also when key and certificate do not belong together.
  const context = createSecureContext({ ...pem, minVersion: "TLSv1.3" });
  return { clusterId: identity.clusterId, pem, context, entrance: openEntrance(pem, entranceCert, log) };
}

/** One that does not go with the key is none, and stands in no database's way: an agent of an earlier version leaves it as it was. */
function openEntrance(pem: Pem, cert: string | null, log: Log): Pem | null {
  if (cert === null) return null;
  try {
    createSecureContext({ ...pem, cert });
    return { ...pem, cert };
  } catch (err) {
    log.error({ err }, "the certificate for edges does not go with the node's key: they cannot come in");
    return null;
  }
}
