import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";

/** What is open at an edge and goes on until somebody cuts it. */
export interface OpenStreams extends Disposable {
  /** How many are open still. */
  count(): { sockets: number; events: number };
}

/** Opens so many WebSockets and event streams, and returns once each has said its first word. */
export async function openStreams(address: string, host: string, each: number): Promise<OpenStreams> {
  const sockets = new Set<Socket>();
  const events = new Set<IncomingMessage>();
  for (let index = 0; index < each; index += 1) {
    const socket = await upgrade(address, host);
    sockets.add(socket);
    socket.resume().once("close", () => sockets.delete(socket));
    const stream = await listen(address, host);
    events.add(stream);
    stream.resume().once("close", () => events.delete(stream));
  }
  return {
    count: () => ({ sockets: sockets.size, events: events.size }),
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      for (const stream of events) stream.destroy();
    },
  };
}

async function upgrade(address: string, host: string): Promise<Socket> {
  const [hostname = "", port] = address.split(":");
  const socket = connect({ host: hostname, port: Number(port) });
  const head = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
  socket.write(`GET /echo HTTP/1.1\r\nHost: ${host}\r\n${head.join("\r\n")}\r\nSec-WebSocket-Version: 13\r\n\r\n`);
  const [said] = await once(socket, "data");
  if (!String(said).includes("101 Switching Protocols")) throw new Error(`no WebSocket: ${said}`);
  // Whoever cuts it is noticed by its end.
  socket.on("error", () => {});
  return socket;
}

async function listen(address: string, host: string): Promise<IncomingMessage> {
  const [hostname, port] = address.split(":");
  const sent = get({ hostname, port, path: "/events", headers: { host }, agent: false });
  const [stream] = (await once(sent, "response")) as [IncomingMessage];
  await once(stream, "data");
  stream.on("error", () => {});
  return stream;
}
