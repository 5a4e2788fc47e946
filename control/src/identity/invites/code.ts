import { createHash, randomBytes } from "node:crypto";

/** A secret that people carry in a link: 24 random bytes need no slow hash. */
export const newCode = (): string => randomBytes(24).toString("base64url");

/** What is stored of a code. */
export const hashCode = (code: string): Buffer => createHash("sha256").update(code).digest();

/** Whether `text` could be a code at all. */
export const isCode = (text: string): boolean => /^[\w-]{32}$/.test(text);
