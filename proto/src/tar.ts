import { invalidArchive, show, tooLargeArchive } from "./archive-refusal.ts";

/** What a tar header says of its entry, as far as anybody here reads it. */
export interface TarHeader {
  name: string;
  type: TarType;
  /** Permission bits, with setuid (0o4000), setgid (0o2000) and sticky. */
  mode: number;
  /** Bytes of content that follow. */
  sizeBytes: number;
  /** Target of a link; empty for everything else. */
  linkname: string;
}

export type TarType = "file" | "directory" | "symlink" | "hardlink" | "device" | "pipe" | "sparse" | "unknown";

/** One step through a tar: a header, or a piece of the content of the entry that the last header began. */
export type TarPart = { header: TarHeader } | { content: Uint8Array };

export interface TarReader {
  /** The parts that `chunk` completes, in their order. Throws RefusedArchiveError. */
  read(chunk: Uint8Array): Generator<TarPart>;
  /** To be called when there is no more: throws RefusedArchiveError unless the tar was complete. */
  end(): void;
}

const blockBytes = 512;
/** Of one extended header or long name. Real ones have a few hundred bytes. */
const extensionBytesMax = 1024 * 1024;
/** Of all of them together, so that an archive of nothing else ends. */
const extensionsBytesMax = 64 * 1024 * 1024;
/** Packers fill up the last record, which has 10 KiB by default and rarely more than a MiB. */
const trailerBytesMax = 2 * 1024 * 1024;

const types: Readonly<Record<string, TarType>> = {
  "\0": "file",
  "0": "file",
  "1": "hardlink",
  "2": "symlink",
  "3": "device",
  "4": "device",
  "5": "directory",
  "6": "pipe",
  S: "sparse",
};

/** What an extended header or a long name says of the entry after it. */
interface Extension {
  path?: string;
  linkpath?: string;
  size?: number;
}

/**
 * Reads ustar, pax and GNU archives piece by piece, and holds no more than one header. Readers of tar differ in
 * what they make of damage, of bytes that are not UTF-8, of a second archive behind the first, of a value given
 * twice: an archive that could mean two things is refused, so that what was checked is what will be unpacked.
 */
export function createTarReader(): TarReader {
  const block = new Uint8Array(blockBytes);
  let filled = 0;
  let emptyBlocks = 0;
  let trailerBytes = 0;
  let extensionsBytes = 0;
  let next: Extension = {};
  // What comes before the next header: content, and what fills up its last block.
  let left = 0;
  let padding = 0;
  let extension: { type: string; bytes: Uint8Array; filled: number } | null = null;

  const expectBytes = (sizeBytes: number): void => {
    left = sizeBytes;
    padding = (blockBytes - (sizeBytes % blockBytes)) % blockBytes;
  };

  const beginExtension = (type: string): void => {
    const sizeBytes = readSize(block);
    extensionsBytes += sizeBytes;
    if (sizeBytes > extensionBytesMax || extensionsBytes > extensionsBytesMax)
      throw tooLargeArchive("an extended header is too long");
    extension = { type, bytes: new Uint8Array(sizeBytes), filled: 0 };
    expectBytes(sizeBytes);
    if (sizeBytes === 0) endExtension();
  };

  const endExtension = (): void => {
    if (extension === null) return;
    const { type, bytes } = extension;
    extension = null;
    const told = type === "L" ? { path: text(bytes) } : type === "K" ? { linkpath: text(bytes) } : readPax(bytes);
    // For all entries that follow. Git writes a comment into one, and nobody a name.
    if (type === "g" && Object.keys(told).length > 0) throw invalidArchive("a global header renames entries");
    if (Object.keys(told).some((key) => key in next)) throw invalidArchive("an entry is described twice");
    next = { ...next, ...told };
  };

  const beginEntry = (type: string): TarHeader => {
    const name = next.path ?? headerName(block);
    const sizeBytes = next.size ?? readSize(block);
    const linkname = next.linkpath ?? text(block.subarray(157, 257));
    const known = types[type] ?? "unknown";
    // A slash at its end is how a directory was marked before there was a type for it.
    const header: TarHeader = {
      name,
      type: known === "file" && name.endsWith("/") ? "directory" : known,
      mode: readNumber(block.subarray(100, 108)) & 0o7777,
      sizeBytes,
      linkname,
    };
    if (sizeBytes > 0 && ["directory", "symlink", "hardlink"].includes(header.type))
      throw invalidArchive(`${show(name)} has content and is no file`);
    next = {};
    expectBytes(sizeBytes);
    return header;
  };

  /** Takes the full block for what it is: a mark of the end, an extension, or an entry. */
  const takeBlock = (): TarHeader | null => {
    if (block.every((byte) => byte === 0)) {
      if (Object.keys(next).length > 0) throw invalidArchive("it is cut off");
      emptyBlocks += 1;
      return null;
    }
    if (emptyBlocks > 0) throw invalidArchive("it goes on behind its end");
    requireHeader(block);
    const type = String.fromCharCode(block[156] ?? 0);
    if (!"xgLK".includes(type)) return beginEntry(type);
    beginExtension(type);
    return null;
  };

  const takeTrailer = (rest: Uint8Array): void => {
    trailerBytes += rest.length;
    if (trailerBytes > trailerBytesMax) throw tooLargeArchive("it goes on behind its end");
    if (rest.some((byte) => byte !== 0)) throw invalidArchive("it goes on behind its end");
  };

  return {
    *read(chunk) {
      for (let at = 0; at < chunk.length; ) {
        if (left > 0) {
          const piece = chunk.subarray(at, at + left);
          at += piece.length;
          left -= piece.length;
          if (extension === null) yield { content: piece };
          else {
            extension.bytes.set(piece, extension.filled);
            extension.filled += piece.length;
            if (left === 0) endExtension();
          }
        } else if (padding > 0) {
          const skipped = Math.min(padding, chunk.length - at);
          at += skipped;
          padding -= skipped;
        } else if (emptyBlocks === 2) {
          takeTrailer(chunk.subarray(at));
          return;
        } else {
          const piece = chunk.subarray(at, at + blockBytes - filled);
          block.set(piece, filled);
          filled += piece.length;
          at += piece.length;
          if (filled < blockBytes) return;
          filled = 0;
          const header = takeBlock();
          if (header !== null) yield { header };
        }
      }
    },
    end() {
      if (emptyBlocks < 2) throw invalidArchive("it is cut off");
    },
  };
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text up to the first NUL. */
function text(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return decode(end === -1 ? bytes : bytes.subarray(0, end));
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalidArchive(`${show(new TextDecoder().decode(bytes))} has a name that is not UTF-8`);
  }
}

const startsWith = (bytes: Uint8Array, letters: string): boolean =>
  [...letters].every((letter, at) => bytes[at] === letter.charCodeAt(0));

const isPosix = (block: Uint8Array): boolean => startsWith(block.subarray(257), "ustar\0");
const isGnu = (block: Uint8Array): boolean => startsWith(block.subarray(257), "ustar  \0");

function headerName(block: Uint8Array): string {
  const prefix = isPosix(block) ? text(block.subarray(345, 500)) : "";
  const name = text(block.subarray(0, 100));
  return prefix === "" ? name : `${prefix}/${name}`;
}

/** Throws unless the block is a header: its sum is right, and it is of a kind that can be read without guessing. */
function requireHeader(block: Uint8Array): void {
  // The field of the sum itself counts as spaces.
  let sum = 8 * 0x20;
  for (let at = 0; at < blockBytes; at++) if (at < 148 || at >= 156) sum += block[at] ?? 0;
  if (sum !== readNumber(block.subarray(148, 156)) || !(isPosix(block) || isGnu(block)))
    throw invalidArchive("it is not a tar, or it is damaged");
}

/** An octal field; spaces and NULs around the digits are usual. */
function readNumber(field: Uint8Array): number {
  const digits = /^ *([0-7]*)[ \0]*$/.exec(String.fromCharCode(...field))?.[1];
  if (digits === undefined) throw invalidArchive("it is not a tar, or it is damaged");
  return digits === "" ? 0 : Number.parseInt(digits, 8);
}

/** The size of an entry: octal, or binary where it does not fit. */
function readSize(block: Uint8Array): number {
  const field = block.subarray(124, 136);
  if (((field[0] ?? 0) & 0x80) === 0) return readNumber(field);
  if (field[0] !== 0x80) throw invalidArchive("an entry has a negative size");
  let size = 0;
  for (const byte of field.subarray(1)) size = size * 256 + byte;
  if (!Number.isSafeInteger(size)) throw tooLargeArchive("an entry is larger than any disk");
  return size;
}

/** The records of a pax header that matter here: "<length> <key>=<value>\n" each. */
function readPax(bytes: Uint8Array): Extension {
  const told: Extension = {};
  for (let at = 0; at < bytes.length; ) {
    const [digits = ""] = /^[1-9]\d{0,6}(?= )/.exec(String.fromCharCode(...bytes.subarray(at, at + 8))) ?? [];
    const length = Number(digits);
    const record = bytes.subarray(at + digits.length + 1, at + length);
    const equals = record.indexOf(0x3d);
    if (length === 0 || at + length > bytes.length || record.at(-1) !== 0x0a || equals === -1)
      throw invalidArchive("it has a damaged extended header");
    addRecord(told, decode(record.subarray(0, equals)), record.subarray(equals + 1, -1));
    at += length;
  }
  return told;
}

function addRecord(told: Extension, key: string, value: Uint8Array): void {
  if (key.startsWith("GNU.sparse.")) throw invalidArchive("it has a sparse file");
  if (key !== "path" && key !== "linkpath" && key !== "size") return;
  if (key in told) throw invalidArchive("an entry is described twice");
  const words = decode(value);
  if (key !== "size") told[key] = words;
  else if (/^\d{1,15}$/.test(words)) told.size = Number(words);
  else throw invalidArchive("an entry has a size that is no number");
}
