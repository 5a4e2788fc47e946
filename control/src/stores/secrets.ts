import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from "node:crypto";

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const keyIdBytes = 4;
const headerBytes = 1 + keyIdBytes + nonceBytes;

/** The sealed bytes cannot be opened: another key, another place, or damage. */
export class CannotOpen extends Error {
  override readonly name = "CannotOpen";
}

/**
 * Seals what must not be readable in the database. `aad` names where the value lives
 * ("table/row/field"), so that a sealed value copied into another row does not open.
 */
export interface Secrets {
  /** Ids of the configured keys, in hex. The first seals. */
  readonly keyIds: readonly [string, ...string[]];
  seal(plaintext: Uint8Array, aad: string): Buffer;
  /** Throws `CannotOpen`. */
  open(sealed: Uint8Array, aad: string): Buffer;
  /** Hex. Equal content has an equal digest as long as the newest key is the same, and nobody without it can guess. */
  digest(content: Uint8Array, aad: string): string;
}

/** First bytes of the key's hash: tells which key sealed a value, without telling the key. */
const keyId = (key: Buffer) => createHash("sha256").update("svc key id").update(key).digest().subarray(0, keyIdBytes);

/** Where the id of its key stands in a sealed value, for those who look without opening: from 0, in bytes. */
export const keyIdPosition = { offset: 1, length: keyIdBytes } as const;

/**
 * AES-256-GCM envelopes: version, key id, nonce, tag, ciphertext.
 * The first of `keys` (32 bytes each) seals; any of them opens, which is what rotation needs.
 */
export function createSecrets(keys: readonly [Buffer, ...Buffer[]]): Secrets {
  for (const key of keys) if (key.length !== 32) throw new RangeError("a master key is 32 bytes long");
  const byId = new Map(keys.map((key) => [keyId(key).toString("hex"), key]));
  const [newest, ...older] = keys;
  const hex = (key: Buffer) => keyId(key).toString("hex");
  return {
    keyIds: [hex(newest), ...older.map(hex)],
    digest(content, aad) {
      const key = createHmac("sha256", newest).update("svc digests").digest();
      return createHmac("sha256", key).update(`${aad.length} ${aad} `).update(content).digest("hex");
    },
    seal(plaintext, aad) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", newest, nonce).setAAD(Buffer.from(aad));
      const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
      return Buffer.concat([Buffer.of(version), keyId(newest), nonce, cipher.getAuthTag(), body]);
    },
    open(sealed, aad) {
      const bytes = Buffer.from(sealed);
      if (bytes.length < headerBytes + tagBytes || bytes[0] !== version) throw new CannotOpen("not a sealed value");
      const key = byId.get(bytes.subarray(1, 1 + keyIdBytes).toString("hex"));
      if (key === undefined) throw new CannotOpen("sealed with a key that is not configured");
      const nonce = bytes.subarray(1 + keyIdBytes, headerBytes);
      const decipher = createDecipheriv("aes-256-gcm", key, nonce)
        .setAAD(Buffer.from(aad))
        .setAuthTag(bytes.subarray(headerBytes, headerBytes + tagBytes));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(headerBytes + tagBytes)), decipher.final()]);
      } catch (cause) {
        throw new CannotOpen("the sealed value does not belong here or is damaged", { cause });
      }
    },
  };
}
