import { once } from "node:events";
import { createServer, connect as dial } from "node:net";
import { connect } from "node:tls";

const silentMs = 10_000;
/** Of a record of TLS that says why there will be no connection. */
const alertType = 0x15;

/**
 * Begins a handshake with a name of `length` characters and goes no further: bytes that were made once, with another name in them each
 * time, so that whoever dials has hardly anything to do.
 */
export async function createHello(length: number): Promise<(name: string) => Buffer> {
  const placeholder = "x".repeat(length);
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const client = connect({ host: "127.0.0.1", port: address.port, servername: placeholder });
  client.on("error", () => {});
  try {
    const [socket] = await once(server, "connection");
    const [hello] = (await once(socket, "data")) as [Buffer];
    const at = hello.indexOf(placeholder);
    if (at < 0 || hello.readUInt16BE(3) + 5 !== hello.length)
      throw new Error("the handshake does not begin in one piece");
    return (name) => {
      if (Buffer.byteLength(name) !== length) throw new Error(`${name} has another length`);
      const bytes = Buffer.from(hello);
      bytes.write(name, at, "latin1");
      return bytes;
    };
  } finally {
    client.destroy();
    server.close();
  }
}

/** Whether whoever is at `address` ended a handshake that began so with an alert. @param from address to dial from */
export async function isRefused(
  address: { host: string; port: number },
  from: string,
  hello: Buffer,
): Promise<boolean> {
  const socket = dial({ ...address, localAddress: from });
  socket.setTimeout(silentMs, () => socket.destroy(new Error("no answer in time")));
  try {
    socket.write(hello);
    const [answer] = (await once(socket, "data")) as [Buffer];
    return answer[0] === alertType;
  } finally {
    socket.destroy();
  }
}
