import { createHash, createHmac, pbkdf2Sync } from "node:crypto";

const keyBytes = 32;
/** What Postgres itself takes; a random password of 256 bits needs no more. */
const scramIterations = 4_096;

/**
 * What Postgres keeps of a password (`pg_authid.rolpassword`), and takes in its place: with it the server proves whoever logs in
 * and nobody can log in. Equal for equal arguments, so that a stored verifier can be told from another password's.
 *
 * @param password of ASCII characters, which the standard's preparation of strings leaves as they are
 * @param salt 16 random bytes
 */
export function scramVerifier(password: string, salt: Buffer, iterations = scramIterations): string {
  const salted = pbkdf2Sync(password, salt, iterations, keyBytes, "sha256");
  const hmac = (text: string) => createHmac("sha256", salted).update(text).digest();
  const stored = createHash("sha256").update(hmac("Client Key")).digest();
  const keys = `${stored.toString("base64")}:${hmac("Server Key").toString("base64")}`;
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${keys}`;
}
