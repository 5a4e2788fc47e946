import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Seals bytes for one place, and opens them there and nowhere else. */
export type Seal = {
  seal(plain: Uint8Array, place: string): Uint8Array;
  /** Null when they were sealed with another key or for another place, or are damaged. */
  open(sealed: Uint8Array, place: string): Uint8Array | null;
};

/** Seals with the key in the file `path`, which is made when it is not there or is no key. */
export const openSeal = (path: string): Seal => createSeal(readKey(path) ?? makeKey(path));

/** Puts another key in the place of the one in `path`: nobody opens any more what that one sealed. */
export const renewSeal = (path: string): Seal => createSeal(makeKey(path));

function createSeal(key: Uint8Array): Seal {
  return {
    seal(plain, place) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(place));
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, place) {
      if (sealed.length < NONCE_BYTES + TAG_BYTES) return null;
      const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      }).setAAD(Buffer.from(place));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
      } catch {
        return null;
      }
    },
  };
}

function readKey(path: string): Uint8Array | null {
  try {
    const key = readFileSync(path);
    return key.length === KEY_BYTES ? key : null;
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return null;
    throw cause;
  }
}

/** On disk before anything is sealed with it. Only one agent at a time does this in a directory. */
function makeKey(path: string): Uint8Array {
  const key = randomBytes(KEY_BYTES);
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
