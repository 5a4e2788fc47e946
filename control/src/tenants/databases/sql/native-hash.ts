import { createHash } from "node:crypto";

const sha1 = (bytes: string | Buffer) => createHash("sha1").update(bytes).digest();

/**
 * What MariaDB keeps of a password (`mysql_native_password`), and takes in its place. It has no salt, so only a random password of
 * many bits is safe behind it.
 */
export const nativeHash = (password: string): string => `*${sha1(sha1(password)).toString("hex").toUpperCase()}`;
