import type { JsonObject } from "./json.ts";

/** Absolute paths of what an edge shows at entrances, and of the authorities that it knows nodes by; PEM. */
export interface EntranceFiles {
  certificate: string;
  key: string;
  ca: string;
}

/**
 * Caddy reads these files when it is given its configuration, and never again. It is told no name, so the node has to show a
 * certificate of the cluster for the address that was dialled.
 */
export const entranceTls = ({ certificate, key, ca }: EntranceFiles): JsonObject => ({
  tls: {
    root_ca_pem_files: [ca],
    client_certificate_file: certificate,
    client_certificate_key_file: key,
    handshake_timeout: "4s",
  },
  // An entrance passes bytes on to apps, which speak this.
  versions: ["1.1"],
});
