import { createHmac, randomBytes } from "node:crypto";

const secretPrefix = "whsec_";
const secretBytes = 32;

/** A new secret, as receivers keep it. */
export const newSecret = (): string => `${secretPrefix}${randomBytes(secretBytes).toString("base64")}`;

/** Headers by which a receiver knows that a delivery is ours, and the same one again; see docs/alerts.md. */
export function signedHeaders(secrets: readonly string[], { id, at, body }: { id: string; at: Date; body: string }) {
  const seconds = Math.floor(at.getTime() / 1000);
  const sign = (secret: string) =>
    createHmac("sha256", Buffer.from(secret.slice(secretPrefix.length), "base64"))
      .update(`${id}.${seconds}.${body}`)
      .digest("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": secrets.map((secret) => `v1,${sign(secret)}`).join(" "),
  };
}
