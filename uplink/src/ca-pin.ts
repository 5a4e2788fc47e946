import { createHash, X509Certificate } from "node:crypto";
import { connect, type DetailedPeerCertificate, type TLSSocket } from "node:tls";
import { controlName } from "./transport.ts";

/** The presented chain holds no certificate with the digest that the bootstrap token promises. */
export class CaMismatchError extends Error {
  override name = "CaMismatchError";
}

const longestChain = 8;

/**
 * The cluster CA as PEM, taken from the chain that the enrolment server presents and accepted only
 * when its digest is the one in the bootstrap token. Nothing else of that first connection is trusted:
 * no byte of the token is sent on it.
 *
 * @param caSha256 sha256 of the CA in DER, lower-case hex
 */
export async function fetchPinnedCa(enrollUrl: string, caSha256: string, signal: AbortSignal): Promise<string> {
  const { hostname, port } = new URL(enrollUrl);
  const socket = connect({
    host: hostname,
    port: Number(port === "" ? 443 : port),
    servername: controlName,
    // The pin below takes the place of the usual verification.
    rejectUnauthorized: false,
  });
  const abort = (): unknown => socket.destroy(new Error("enrolment was interrupted"));
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    await secured(socket);
    for (const der of presentedChain(socket)) {
      if (createHash("sha256").update(der).digest("hex") === caSha256) return new X509Certificate(der).toString();
    }
  } finally {
    signal.removeEventListener("abort", abort);
    socket.destroy();
  }
  throw new CaMismatchError(
    "the enrolment server does not present the cluster CA that the bootstrap token names: it is another cluster, or its CA was replaced and a new token is needed",
  );
}

function secured(socket: TLSSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.setTimeout(10_000, () => socket.destroy(new Error("TLS handshake timed out")));
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("connection closed during the TLS handshake")));
  });
}

function presentedChain(socket: TLSSocket): Buffer[] {
  const chain: Buffer[] = [];
  let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true);
  while (certificate?.raw !== undefined && chain.length < longestChain) {
    chain.push(certificate.raw);
    // A self-signed certificate is its own issuer.
    certificate = certificate.issuerCertificate === certificate ? undefined : certificate.issuerCertificate;
  }
  return chain;
}
