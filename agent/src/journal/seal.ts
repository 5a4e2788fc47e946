import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const algorithm = "aes-256-gcm";
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/** Seals bytes for one place, and opens them there and nowhere else. */
export interface Seal {
  seal(plain: Uint8Array, place: string): Uint8Array;
  /** Null when they were sealed with another key or for another place, or are damaged. */
  open(sealed: Uint8Array, place: string): Uint8Array | null;
}

/** Seals with the key in the file `path`, which is made when it is not there or is no key. */
export const openSeal = (path: string): Seal => createSeal(readKey(path) ?? makeKey(path));

/** Puts another key in the place of the one in `path`: nobody opens any more what that one sealed. */
export const renewSeal = (path: string): Seal => createSeal(makeKey(path));

function createSeal(key: Uint8Array): Seal {
  return {
    seal(plain, place) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(place));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, place) {
      if (sealed.length < nonceBytes + tagBytes) return null;
      const decipher = createDecipheriv(algorithm, key, sealed.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      }).setAAD(Buffer.from(place));
      decipher.setAuthTag(sealed.subarray(-tagBytes));
      try {
        return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()]);
      } catch {
        return null;
      }
    },
  };
}

function readKey(path: string): Uint8Array | null {
  try {
    const key = readFileSync(path);
    return key.length === keyBytes ? key : null;
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return null;
    throw cause;
  }
}

/** On disk before anything is sealed with it. Only one agent at a time does this in a directory. */
function makeKey(path: string): Uint8Array {
  const key = randomBytes(keyBytes);
  const temporary = `${path}.new`;
  const file = openSync(temporary, "w", 0o600);
  try {
    writeSync(file, key);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path);
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
  return key;
}
