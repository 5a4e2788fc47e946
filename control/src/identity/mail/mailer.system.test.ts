import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { expect, onTestFinished, test } from "vitest";
import { createAuthority, createServerCertificate } from "../../fleet/ca/certificates.ts";
import { createLog } from "../../log.ts";
import { createMailer } from "./mailer.ts";
import { createPostbox } from "./postbox.ts";

const parts = { clock: { ...systemClock, now: () => new Date("2026-01-02T03:04:05.678Z") }, random: systemRandom };
const message = { subject: "Hello", text: "One\nTwo\n" };

test("the outbox holds one complete file per mail, for nobody else to read", async () => {
  const dir = await mkdtemp(join(tmpdir(), "svc-mail-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const mailer = createMailer(parts, { from: "svc@svc.test", outboxDir: join(dir, "outbox") });
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

interface SmtpServer {
  port: number;
  url: string;
  /** What it was told, line by line. */
  said: string[];
}

interface Manners {
  /** Replies to a line that begins so, instead of taking it. */
  refuses?: { line: string; reply: string };
  /** Never says a word. */
  silent?: boolean;
  /** Speaks TLS from the first byte. */
  tls?: { key: string; cert: string };
  host?: string;
}

/** A mail server that takes everything, if it was not told otherwise, and remembers what it was told. */
async function smtpServer({ refuses, silent = false, tls, host = "127.0.0.1" }: Manners = {}): Promise<SmtpServer> {
  const said: string[] = [];
  const talk = (socket: Socket) => {
    let inData = false;
    socket.on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
    if (silent) return;
    socket.write("220 test\r\n");
    socket.on("data", (chunk) => {
      for (const line of String(chunk).split("\r\n")) {
        if (line === "") continue;
        said.push(line);
        if (inData && line === ".") {
          inData = false;
          socket.write("250 taken\r\n");
        } else if (refuses !== undefined && line.startsWith(refuses.line)) {
          socket.write(`${refuses.reply}\r\n`);
        } else if (!inData) {
          inData = line === "DATA";
          if (line === "QUIT") socket.end("221 bye\r\n");
          else socket.write(inData ? "354 go on\r\n" : "250 fine\r\n");
        }
      }
    });
  };
  const server: Server = tls === undefined ? createServer(talk) : createTlsServer(tls, talk);
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { port, url: `${tls === undefined ? "smtp" : "smtps"}://${host}:${port}`, said };
}

const mailerTo = (smtpUrl: string, times?: { stepMs: number; totalMs: number }) => {
  const mailer = createMailer(parts, { from: "svc@svc.test", smtpUrl }, times);
  if (mailer === null) throw new Error("there is no mailer");
  onTestFinished(() => mailer.close());
  return mailer;
};

test.each([
  { what: "the recipient", refuses: { line: "RCPT TO", reply: "550 no such mailbox" } },
  { what: "the sender", refuses: { line: "MAIL FROM", reply: "553 not allowed" } },
  { what: "the mail", refuses: { line: "DATA", reply: "452 no room" } },
])("a server that refuses $what is an error, and the next mail is tried anew", async ({ refuses }) => {
  const { url, said } = await smtpServer({ refuses });
  const mailer = mailerTo(url);
  await expect(mailer.send("ada@svc.test", message)).rejects.toThrow(refuses.reply.slice(4));
  await expect(mailer.send("bob@svc.test", message)).rejects.toThrow();
  expect(said.filter((line) => line.startsWith("MAIL FROM"))).toHaveLength(2);
});

test("a server that says nothing is given up", async () => {
  const { url } = await smtpServer({ silent: true });
  const start = performance.now();
  const impatient = mailerTo(url, { stepMs: 300, totalMs: 1_000 });
  await expect(impatient.send("ada@svc.test", message)).rejects.toThrow();
  // Each step has ten seconds unless a test says otherwise.
  expect(performance.now() - start).toBeLessThan(9_000);
});

test("a server that is not there is an error", async () => {
  await expect(mailerTo("smtp://127.0.0.1:9").send("ada@svc.test", message)).rejects.toThrow();
});

test("to another machine nothing goes in the clear, unless it was said so", async () => {
  const { url, said } = await smtpServer({ host: "127.0.0.2", refuses: { line: "STARTTLS", reply: "502 what" } });
  const secret = url.replace("smtp://", "smtp://svc:its-password@");
  await expect(mailerTo(secret).send("ada@svc.test", message)).rejects.toThrow();
  expect(said.join(" ")).not.toMatch(/AUTH|MAIL|RCPT/);
  await mailerTo(`${url}?requireTLS=false`).send("ada@svc.test", message);
  expect(said).toContain("RCPT TO:<ada@svc.test>");
});

test("a certificate that nobody vouches for is not believed", async () => {
  const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
  const authority = await createAuthority("mail", { ...validity, serial: randomBytes(16) });
  const leaf = { ...validity, serial: randomBytes(16), hosts: ["localhost"] };
  const { privateKey, certificate } = await createServerCertificate(authority, leaf);
  const { port, said } = await smtpServer({ tls: { key: privateKey, cert: certificate } });
  await expect(mailerTo(`smtps://localhost:${port}`).send("ada@svc.test", message)).rejects.toThrow();
  expect(said).toEqual([]);
});

test("what waits in the postbox is sent behind the scenes, in order, and before the end", async () => {
  const sent: string[] = [];
  const { promise: open, resolve } = Promise.withResolvers<void>();
  const mailer = {
    async send(to: string) {
      await open;
      if (to === "bad@svc.test") throw new Error("refused");
      sent.push(to);
    },
    close: () => undefined,
  };
  const postbox = createPostbox(systemClock, mailer, createLog("silent"));
  const addresses = Array.from({ length: 9 }, (_, at) => `${at}@svc.test`);
  for (const to of ["bad@svc.test", ...addresses]) postbox.post(to, message);
  expect(sent).toEqual([]);
  resolve();
  await expect.poll(() => sent.length).toBe(addresses.length);
  expect(sent).toEqual(addresses);
  await postbox[Symbol.asyncDispose]();
});

test("a postbox that is full drops what is too much, and one without a mailer everything", async () => {
  let count = 0;
  const { promise: open, resolve } = Promise.withResolvers<void>();
  const send = async () => {
    await open;
    count += 1;
  };
  await using postbox = createPostbox(systemClock, { send, close: () => undefined }, createLog("silent"));
  for (let at = 0; at < 1100; at++) postbox.post("ada@svc.test", message);
  resolve();
  await expect.poll(() => count).toBe(1004);
  await using none = createPostbox(systemClock, null, createLog("silent"));
  none.post("ada@svc.test", message);
});

test("SMTP delivers to one recipient, whatever the address tries", async () => {
  const { url, said } = await smtpServer();
  const mailer = createMailer(parts, { from: "svc@svc.test", smtpUrl: url });
  await mailer?.send("ada@svc.test", message);
  expect(said).toContain("RCPT TO:<ada@svc.test>");
  expect(said).toContain("Subject: Hello");
  await mailer?.send("ada@svc.test,eve@evil.test", message).catch(() => undefined);
  await mailer?.send("ada@svc.test>\r\nRCPT TO:<eve@evil.test", message).catch(() => undefined);
  expect(said.filter((line) => line.startsWith("RCPT TO:<eve"))).toEqual([]);
  mailer?.close();
});

test("without either there is no mail", () => {
  expect(createMailer(parts, { from: "svc@svc.test" })).toBeNull();
});
