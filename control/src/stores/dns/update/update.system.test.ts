import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { afterEach, expect, test } from "vitest";
import { BadMessage } from "./message.ts";
import { recorded } from "./testing.ts";
import { UpdateRefused, updateZone } from "./update.ts";

const { id, at, key, change, added } = recorded;
// The answers were signed at that moment and for that number.
const parts = { clock: { ...systemClock, now: () => at }, random: { next: () => id / 0x1_0000, uuid: () => "" } };

let server: Server;
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  server.close();
  await once(server, "close");
});

/** A server that answers everything with these pieces; none: it says nothing. Returns what it is sent, in hex. */
async function answering(pieces: readonly Buffer[], thenEnds = false) {
  const asked: string[] = [];
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", async (data) => {
      asked.push(data.toString("hex"));
      for (const piece of pieces) if (!socket.write(piece)) await once(socket, "drain");
      if (thenEnds) socket.end();
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const update = (signal = new AbortController().signal) =>
    updateZone(parts, { address: { host: "127.0.0.1", port }, key }, change, signal);
  return { asked, update };
}

const withLength = (hex: string): Buffer => {
  const message = Buffer.from(hex, "hex");
  return Buffer.concat([Buffer.from([0, message.length]), message]);
};

test("a change is sent whole, and its answer read however it comes", async () => {
  const answer = withLength(added.answer);
  const { asked, update } = await answering([answer.subarray(0, 1), answer.subarray(1, 20), answer.subarray(20)]);
  await update();
  expect(asked).toEqual([`00${(added.sent.length / 2).toString(16)}${added.sent}`]);
});

test.each([
  { when: "it does not know the key", answer: recorded.badKey, text: /BADKEY/ },
  { when: "the secret is another one", answer: recorded.badSignature, text: /BADSIG/ },
  { when: "it does not have the zone", answer: recorded.notAuthoritative, text: /content\.example.*NOTAUTH/ },
])("what the server says when $when is told", async ({ answer, text }) => {
  const { update } = await answering([withLength(answer)]);
  const refused = update();
  await expect(refused).rejects.toThrow(UpdateRefused);
  await expect(refused).rejects.toThrow(text);
});

test("a server that says yes without the key is not believed", async () => {
  const { update } = await answering([withLength(recorded.notAuthoritative.replace("1234a809", "1234a800"))]);
  await expect(update()).rejects.toThrow(BadMessage);
});

test("a server that hangs up is no answer", async () => {
  const { update } = await answering([Buffer.from([0])], true);
  await expect(update()).rejects.toThrow(/without an answer/);
});

test("a server that never answers is given up", async () => {
  const silent = await answering([]);
  const giveUp = new AbortController();
  const updating = silent.update(giveUp.signal);
  await expect.poll(() => silent.asked.length).toBe(1);
  giveUp.abort();
  await expect(updating).rejects.toThrow(/in time/);
});
