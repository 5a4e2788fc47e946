/** A startup packet of Postgres's protocol 3, or another version, with names and values as given. */
export function aStartup(parameters: readonly string[], version = 196_608, end = "\0"): Buffer {
  const body = Buffer.from(parameters.map((text) => `${text}\0`).join("") + end, "latin1");
  const head = Buffer.alloc(8);
  head.writeUInt32BE(8 + body.length);
  head.writeUInt32BE(version, 4);
  return Buffer.concat([head, body]);
}

/** A message of a server of Postgres. */
export function aMessage(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}
