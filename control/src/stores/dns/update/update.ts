import { once } from "node:events";
import { connect } from "node:net";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { BadMessage, type Reply, readReply, type TextChange, u16, updateMessage } from "./message.ts";
import { checkReply, signMessage, type TsigKey } from "./tsig.ts";

/** The server that has a zone, and the key that may change it. */
export interface UpdateServer {
  address: { host: string; port: number };
  key: TsigKey;
}

/** A zone was not changed; the message is for an operator. */
export class UpdateRefused extends Error {
  override readonly name = "UpdateRefused";
}

const timeoutMs = 15_000;

/**
 * Changes a zone (RFC 2136, over TCP, signed by RFC 8945 with hmac-sha256). May be repeated. Throws `UpdateRefused` for what
 * the server says no to, `BadMessage` for an answer that is not the key's, and what the network throws.
 */
export async function updateZone(
  { clock, random }: { clock: Clock; random: Random },
  { address, key }: UpdateServer,
  change: TextChange,
  signal: AbortSignal,
): Promise<void> {
  const id = Math.floor(random.next() * 0x1_0000);
  const { signed, mac } = signMessage(updateMessage(id, change), key, clock.now());
  const message = await exchange(address, signed, AbortSignal.any([signal, clock.abortAfter(timeoutMs)]));
  const reply = readReply(message);
  if (reply.id !== id) throw new BadMessage("the answer is to another question");
  const problem = problemOf(reply);
  // Whoever does not take the key cannot sign: it is believed that it refuses, and nothing else.
  if (problem !== null) throw new UpdateRefused(`The server of ${change.zone} does not change it: ${problem}.`);
  checkReply(message, reply, { key, mac, now: clock.now() });
}

/** Sends one message, with its length before it, and reads one. */
async function exchange(
  address: { host: string; port: number },
  message: Buffer,
  signal: AbortSignal,
): Promise<Buffer> {
  signal.throwIfAborted();
  const socket = connect({ ...address, noDelay: true });
  const giveUp = () => socket.destroy(new Error("the DNS server does not answer in time"));
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    await once(socket, "connect");
    socket.write(Buffer.concat([u16(message.length), message]));
    let read = Buffer.alloc(0);
    for await (const chunk of socket) {
      read = Buffer.concat([read, chunk as Buffer]);
      if (read.length < 2) continue;
      const length = read.readUInt16BE();
      if (read.length >= 2 + length) return read.subarray(2, 2 + length);
    }
    throw new BadMessage("the DNS server ends the connection without an answer");
  } finally {
    signal.removeEventListener("abort", giveUp);
    socket.destroy();
  }
}

const rcodes: Readonly<Record<number, string>> = {
  ...{ 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED: the key may not do this" },
  ...{ 9: "NOTAUTH: it does not take the key, or does not have the zone", 10: "NOTZONE: the name is not of the zone" },
};
const tsigErrors: Readonly<Record<number, string>> = {
  ...{ 16: "BADSIG: the secret of the key is another one", 17: "BADKEY: it does not know a key of this name" },
  ...{ 18: "BADTIME: its clock and that of control differ", 22: "BADTRUNC" },
};

/** Null when the zone was changed. */
function problemOf({ rcode, signature }: Reply): string | null {
  const error = signature?.error ?? 0;
  if (error !== 0) return tsigErrors[error] ?? `error ${error} of TSIG`;
  return rcode === 0 ? null : (rcodes[rcode] ?? `code ${rcode} of DNS`);
}
