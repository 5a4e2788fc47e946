import { once } from "node:events";
import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { readAnswer } from "./http-answer.ts";

const opened: Server[] = [];
afterEach(() => {
  for (const server of opened.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

/** The answer of a server that answers so. */
async function answerOf(respond: (response: ServerResponse) => void): Promise<IncomingMessage> {
  const server = createServer((_, response) => respond(response)).listen(0, "127.0.0.1");
  opened.push(server);
  await once(server, "listening");
  const asked = get({ host: "127.0.0.1", port: (server.address() as AddressInfo).port, agent: false });
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  asked.on("error", () => {});
  return answer;
}

test("letters that come in two parts are whole", async () => {
  const bytes = Buffer.from("für");
  const answer = await answerOf((response) => {
    response.write(bytes.subarray(0, 2), () => response.end(bytes.subarray(2)));
  });
  expect(await readAnswer(answer, bytes.length)).toBe("für");
});

test("one without end is broken off", async () => {
  const answer = await answerOf((response) => {
    const more = (): void => {
      while (response.write("x".repeat(1_000)));
    };
    response.on("drain", more);
    more();
  });
  await expect(readAnswer(answer, 5_000)).rejects.toThrow("too long");
  await expect.poll(() => answer.destroyed).toBe(true);
});

test("one that breaks off rejects", async () => {
  const answer = await answerOf((response) => {
    response.writeHead(200, { "Content-Length": "10" });
    response.write("12345", () => response.destroy());
  });
  await expect(readAnswer(answer, 100)).rejects.toThrow("aborted");
});
