import { once } from "node:events";
import { createServer as createTcpServer } from "node:net";
import dns2 from "dns2";

/** What a name has. Strings of TXT above 255 bytes are written in pieces, as DNS does. */
export interface Records {
  A?: string[];
  AAAA?: string[];
  CNAME?: string;
  TXT?: string[];
  NS?: string[];
  CAA?: { flags?: number; tag: string; value: string }[];
}

export interface TestDns extends AsyncDisposable {
  /** `ip:port` of both UDP and TCP. */
  readonly server: string;
  /** Names that were asked for, each with its kind: `TXT _svc.shop.example`. */
  readonly asked: string[];
  /** Says from now on what the name has. It has nothing else, and without a call of this there is no such name. */
  set(name: string, records: Records): void;
  /** There is no such name any more. */
  remove(name: string): void;
  /** `failing`: SERVFAIL for every name; `silent`: no answer at all. */
  behave(how: "answering" | "failing" | "silent"): void;
}

/** A DNS server in this process for names of a test's own, which follows CNAMEs among them. */
export async function startDns(address = "127.0.0.1"): Promise<TestDns> {
  const names = new Map<string, Records>();
  const asked: string[] = [];
  let behaviour: Parameters<TestDns["behave"]>[0] = "answering";
  const server = dns2.createServer({
    udp: { type: "udp4" },
    tcp: true,
    handle(request, send) {
      const [question] = request.questions;
      if (question === undefined || behaviour === "silent") return;
      const response = dns2.Packet.createResponseFromRequest(request);
      const name = question.name.toLowerCase();
      const type = typeNames.get(Number(question.type));
      asked.push(`${type ?? question.type} ${name}`);
      if (behaviour === "failing") response.header.rcode = dns2.Packet.RCODE.SERVFAIL;
      else if (!names.has(name)) response.header.rcode = dns2.Packet.RCODE.NXDOMAIN;
      else if (type !== undefined) response.answers.push(...answersTo(names, name, type));
      void send(response);
    },
  });
  const port = await freePort(address);
  await server.listen({ udp: { port, address }, tcp: { port, address } });
  return {
    server: `${address}:${port}`,
    asked,
    set: (name, records) => void names.set(name.toLowerCase(), records),
    remove: (name) => void names.delete(name.toLowerCase()),
    behave(how) {
      behaviour = how;
    },
    [Symbol.asyncDispose]: async () => void (await server.close()),
  };
}

type RecordType = keyof Records;

const typeNames = new Map<number, RecordType>(
  (["A", "AAAA", "CNAME", "TXT", "NS", "CAA"] as const).map((name) => [dns2.Packet.TYPE[name], name]),
);
const ttlSeconds = 1;
const cnamesMax = 16;

/** Of records as they stand in a packet. */
function answersTo(names: Map<string, Records>, asked: string, type: RecordType): dns2.Packet.Resource[] {
  const answers: dns2.Packet.Resource[] = [];
  let name = asked;
  for (let hops = 0; hops < cnamesMax; hops += 1) {
    const records = names.get(name);
    if (records?.CNAME === undefined || type === "CNAME") break;
    answers.push(resource(name, "CNAME", { domain: records.CNAME }));
    name = records.CNAME.toLowerCase();
  }
  return [...answers, ...ownOf(name, names.get(name) ?? {}, type)];
}

function ownOf(name: string, records: Records, type: RecordType): dns2.Packet.Resource[] {
  switch (type) {
    case "A":
    case "AAAA":
      return (records[type] ?? []).map((address) => resource(name, type, { address }));
    case "CNAME":
      return records.CNAME === undefined ? [] : [resource(name, type, { domain: records.CNAME })];
    case "TXT":
      return (records.TXT ?? []).map((text) => resource(name, type, { data: text.match(/.{1,255}/gs) ?? [""] }));
    case "NS":
      return (records.NS ?? []).map((ns) => resource(name, type, { ns }));
    case "CAA":
      return (records.CAA ?? []).map(({ flags = 0, tag, value }) => resource(name, type, { flags, tag, value }));
  }
}

const resource = (name: string, type: RecordType, data: object): dns2.Packet.Resource =>
  ({
    name,
    type: dns2.Packet.TYPE[type],
    class: dns2.Packet.CLASS.IN,
    ttl: ttlSeconds,
    ...data,
  }) as dns2.Packet.Resource;

/** One that nothing listens at over TCP; datagrams of other programs have ports of another range than the system gives. */
async function freePort(address: string): Promise<number> {
  const probe = createTcpServer().listen(0, address);
  await once(probe, "listening");
  const bound = probe.address();
  probe.close();
  await once(probe, "close");
  if (bound === null || typeof bound === "string") throw new Error("no port");
  return bound.port;
}
