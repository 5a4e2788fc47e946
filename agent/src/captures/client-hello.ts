// @pure

/** What is known of the server's name that a TLS connection begins with. */
export type Asked =
  /** The beginning is not all there yet. */
  | { kind: "more" }
  /** In lower case. */
  | { kind: "name"; name: string }
  /** It is no TLS, or names no server, or more than one. */
  | { kind: "none" };

/** Browsers of today send two kilobytes, most of it a key. */
const lengthMax = 16 * 1024;
const recordsMax = 8;
const [handshake, clientHello, serverName, hostName] = [22, 1, 0, 0];
const [recordHead, helloHead] = [5, 4];

const more: Asked = { kind: "more" };
const none: Asked = { kind: "none" };

/** Reads the name from the first `bytes` of a connection (RFC 8446, RFC 6066). Whatever is not exactly as it should be has none. */
export function askedServer(bytes: Buffer): Asked {
  const hello = helloOf(bytes);
  if (hello === "more") return bytes.byteLength < lengthMax ? more : none;
  if (hello === null) return none;
  try {
    const names = serverNames(hello);
    const [name] = names;
    return names.length === 1 && name !== undefined && /^[\w.-]+$/.test(name)
      ? { kind: "name", name: name.toLowerCase() }
      : none;
  } catch (error) {
    // It says that it is longer than it is.
    if (error instanceof RangeError) return none;
    throw error;
  }
}

/** The message, which may come in several records; null: it is none. */
function helloOf(bytes: Buffer): Buffer | "more" | null {
  let message = Buffer.alloc(0);
  for (let [at, records] = [0, 0]; at < bytes.byteLength; records += 1) {
    if (records === recordsMax) return null;
    if (bytes[at] !== handshake) return null;
    if (bytes.byteLength < at + recordHead) return "more";
    const end = at + recordHead + bytes.readUInt16BE(at + 3);
    if (bytes[at + 1] !== 3 || end === at + recordHead) return null;
    message = Buffer.concat([message, bytes.subarray(at + recordHead, end)]);
    if (message[0] !== clientHello) return message.byteLength === 0 ? "more" : null;
    if (message.byteLength >= helloHead) {
      const whole = helloHead + message.readUIntBE(1, 3);
      if (whole > lengthMax) return null;
      if (message.byteLength >= whole) return message.subarray(helloHead, whole);
    }
    at = end;
  }
  return "more";
}

/** Every name in every such extension. Throws RangeError where a length leads out of the message. */
function serverNames(hello: Buffer): string[] {
  // Its version and random bytes; then the session, the ciphers and the compressions.
  let at = 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = at + 2 + hello.readUInt16BE(at);
  const names: string[] = [];
  for (at += 2; at < end; ) {
    const [type, length] = [hello.readUInt16BE(at), hello.readUInt16BE(at + 2)];
    at += 4;
    if (type === serverName) {
      for (let entry = at + 2; entry < at + length; ) {
        const size = hello.readUInt16BE(entry + 1);
        if (hello.readUInt8(entry) !== hostName || entry + 3 + size > hello.byteLength) return [];
        names.push(hello.toString("latin1", entry + 3, entry + 3 + size));
        entry += 3 + size;
      }
    }
    at += length;
  }
  return names;
}
