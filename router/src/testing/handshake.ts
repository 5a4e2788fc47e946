import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:tls";

/** What a full handshake at `address` for a name shows, as `print` says it; `alert` when there is none for it. */
export async function shown(address: string, servername: string | null): Promise<string> {
  const [host, port] = address.split(":");
  const socket = connect({
    ...{ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols: ["http/1.1"] },
    ...(servername !== null && { servername }),
  });
  socket.setTimeout(10_000, () => socket.destroy(new Error("no answer in time")));
  try {
    await once(socket, "secureConnect");
    const { subjectaltname, fingerprint256 } = socket.getPeerCertificate();
    return `${subjectaltname} ${fingerprint256}`;
  } catch (error) {
    return error instanceof Error && /alert/.test(error.message) ? "alert" : String(error);
  } finally {
    socket.destroy();
  }
}

export const print = (certificate: { chain: string }, name: string): string => {
  const { fingerprint256 } = new X509Certificate(certificate.chain);
  return `DNS:${name} ${fingerprint256}`;
};
