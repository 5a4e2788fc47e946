import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createMailer } from "./mailer.ts";

const now = () => new Date("2026-01-02T03:04:05.678Z");
const message = { subject: "Hello", text: "One\nTwo\n" };

test("the outbox holds one complete file per mail, for nobody else to read", async () => {
  const dir = await mkdtemp(join(tmpdir(), "svc-mail-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const mailer = createMailer({ from: "svc@svc.test", outboxDir: join(dir, "outbox") }, now);
  await Promise.all([mailer?.send("ada@svc.test", message), mailer?.send("bob@svc.test", message)]);
  const names = await readdir(join(dir, "outbox"));
  expect(names).toEqual([expect.stringMatching(/^20260102030405678-.*\.json$/), expect.stringMatching(/\.json$/)]);
  const mails = await Promise.all(
    names.map(async (name) => JSON.parse(await readFile(join(dir, "outbox", name), "utf8"))),
  );
  expect(mails).toContainEqual({
    from: "svc@svc.test",
    to: "ada@svc.test",
    ...message,
    at: "2026-01-02T03:04:05.678Z",
  });
  expect((await stat(join(dir, "outbox", names[0] ?? ""))).mode & 0o777).toBe(0o600);
});

/** A mail server that takes everything and remembers what it was told. */
async function smtpServer(): Promise<{ url: string; said: string[] }> {
  const said: string[] = [];
  const server: Server = createServer((socket) => {
    let inData = false;
    socket.write("220 test\r\n");
    socket.on("data", (chunk) => {
      for (const line of String(chunk).split("\r\n")) {
        if (line === "") continue;
        said.push(line);
        if (inData && line === ".") {
          inData = false;
          socket.write("250 taken\r\n");
        } else if (!inData) {
          inData = line === "DATA";
          if (line === "QUIT") socket.end("221 bye\r\n");
          else socket.write(inData ? "354 go on\r\n" : "250 fine\r\n");
        }
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  return { url: `smtp://127.0.0.1:${typeof address === "object" ? address?.port : 0}`, said };
}

test("SMTP delivers to one recipient, whatever the address tries", async () => {
  const { url, said } = await smtpServer();
  const mailer = createMailer({ from: "svc@svc.test", smtpUrl: url }, now);
  await mailer?.send("ada@svc.test", message);
  expect(said).toContain("RCPT TO:<ada@svc.test>");
  expect(said).toContain("Subject: Hello");
  await mailer?.send("ada@svc.test,eve@evil.test", message).catch(() => undefined);
  await mailer?.send("ada@svc.test>\r\nRCPT TO:<eve@evil.test", message).catch(() => undefined);
  expect(said.filter((line) => line.startsWith("RCPT TO:<eve"))).toEqual([]);
  mailer?.close();
});

test("without either there is no mail", () => {
  expect(createMailer({ from: "svc@svc.test" }, now)).toBeNull();
});
