import { randomBytes } from "node:crypto";

const passwordBytes = 32;

/** A password of 256 random bits: 43 characters that need no escape in a URL. */
export const newPassword = (): string => randomBytes(passwordBytes).toString("base64url");
