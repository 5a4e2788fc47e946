import { type AddressInfo, createServer } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { expect, onTestFinished, test } from "vitest";
import { post } from "./send.ts";

/** A server that says exactly this to whatever it is sent. */
async function saying(text: string): Promise<URL> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(text));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
}

const closed = { status: null, problem: "The connection was closed without an answer." };

test.each([
  { says: "HTTP/1.1 200 OK\r\n\r\n", is: { status: 200, problem: null } },
  { says: "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", is: { status: 204, problem: null } },
  { says: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: Upgrade\r\n\r\n", is: closed },
  { says: "HTTP/1.1 103 Early Hints\r\n\r\n", is: closed },
  { says: "", is: closed },
  { says: "220 mail.example.test ESMTP\r\n", is: { status: null, problem: "It could not be reached." } },
])("a receiver that says $says has an end", async ({ says, is }) => {
  const url = await saying(says);
  const deps = { clock: systemClock, egress: async () => [{ address: "127.0.0.1", family: 4 as const }] };
  expect(await post(deps, { url, headers: {}, body: "{}" }, new AbortController().signal)).toEqual(is);
});
