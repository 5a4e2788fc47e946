/** An entry of a tar as a test wants it on the wire, however wrong. */
export interface RawEntry {
  name: string | Uint8Array;
  /** The type flag; "0" is a file. */
  type?: string;
  mode?: number;
  linkname?: string | Uint8Array;
  content?: string | Uint8Array;
  /** What the header says instead of the content's length. */
  sizeBytes?: number;
  /** The size field as it stands in the header. */
  sizeField?: Uint8Array;
  /** "ustar\0" + "00" unless said otherwise. */
  magic?: string;
  prefix?: string;
}

const bytesOf = (value: string | Uint8Array): Buffer =>
  typeof value === "string" ? Buffer.from(value) : Buffer.from(value);
const octal = (value: number, length: number): string => `${value.toString(8).padStart(length - 1, "0")}\0`;

/** The 512 bytes before an entry's content, with the right sum. */
export function tarHeader(entry: RawEntry): Buffer {
  const { name, type = "0", mode = 0o644, linkname = "", content = "", magic = "ustar\x0000", prefix = "" } = entry;
  const block = Buffer.alloc(512);
  bytesOf(name).copy(block, 0, 0, 100);
  block.write(octal(mode, 8), 100);
  block.write(octal(0, 8), 108);
  block.write(octal(0, 8), 116);
  block.write(octal(entry.sizeBytes ?? bytesOf(content).length, 12), 124);
  if (entry.sizeField !== undefined) Buffer.from(entry.sizeField).copy(block, 124, 0, 12);
  block.write(octal(0, 12), 136);
  block.write("        ", 148);
  block.write(type, 156, "latin1");
  bytesOf(linkname).copy(block, 157, 0, 100);
  block.write(magic, 257, "latin1");
  block.write(prefix, 345);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** A header with its content, filled up to whole blocks. */
export function tarEntry(entry: RawEntry): Buffer {
  const content = bytesOf(entry.content ?? "");
  return Buffer.concat([tarHeader(entry), content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

/** The mark at the end of every tar. */
export const tarEnd = Buffer.alloc(1024);

export const rawTar = (...entries: RawEntry[]): Buffer => Buffer.concat([...entries.map(tarEntry), tarEnd]);

/** The content of a pax header with these records. */
export function paxRecords(records: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    let length = rest + 1;
    while (rest + String(length).length !== length) length = rest + String(length).length;
    return `${length} ${key}=${value}\n`;
  });
  return Buffer.from(lines.join(""));
}
