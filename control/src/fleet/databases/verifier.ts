import { createHash, createHmac, pbkdf2Sync } from "node:crypto";
import type { DatabaseEngine } from "@svc/proto";

/** As Postgres itself makes them. Passwords of 256 random bits need no more. */
const scramIterations = 4096;
const saltBytes = 16;

/**
 * What a server keeps to recognise a password by, and cannot log in with elsewhere: a SCRAM-SHA-256 verifier, or the hash
 * of MariaDB's native passwords. Of one password and branch it is always the same, so that what the server has can be
 * compared with it.
 */
export const verifierOf = (engine: DatabaseEngine, databaseId: string, password: string): string =>
  engine === "postgres" ? scramVerifier(password, saltOf(databaseId, password)) : nativeHash(password);

/** Nobody learns the password by it, and no two branches share one. */
const saltOf = (databaseId: string, password: string): Buffer =>
  createHmac("sha256", password).update(`svc scram salt ${databaseId}`).digest().subarray(0, saltBytes);

/** RFC 5803, as in the column `rolpassword` of Postgres. */
function scramVerifier(password: string, salt: Buffer): string {
  const salted = pbkdf2Sync(password, salt, scramIterations, 32, "sha256");
  const keyFor = (name: string) => createHmac("sha256", salted).update(name).digest();
  const storedKey = createHash("sha256").update(keyFor("Client Key")).digest();
  const parts = [storedKey, keyFor("Server Key")].map((bytes) => bytes.toString("base64"));
  return `SCRAM-SHA-256$${scramIterations}:${salt.toString("base64")}$${parts.join(":")}`;
}

function nativeHash(password: string): string {
  const sha1 = (data: string | Buffer) => createHash("sha1").update(data).digest();
  return `*${sha1(sha1(password)).toString("hex").toUpperCase()}`;
}
