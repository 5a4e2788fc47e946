import dns2 from "dns2";
import { readRecords } from "./records.mjs";

const ttlSeconds = 1;
const { Packet } = dns2;

/**
 * A DNS server for this machine alone: every name is at `address`, and has the texts that `file` says at that moment. It is
 * for trying domains out, and tells nobody the truth.
 */
export async function startLocalDns(options: {
  port: number;
  address: string;
  file: string;
}): Promise<AsyncDisposable> {
  const { port, address, file } = options;
  const server = dns2.createServer({
    udp: { type: "udp4" },
    tcp: true,
    handle(request, send) {
      const [question] = request.questions;
      if (question === undefined) return;
      const response = Packet.createResponseFromRequest(request);
      const name = question.name.toLowerCase();
      const about = { name: question.name, type: Number(question.type), class: Packet.CLASS.IN, ttl: ttlSeconds };
      const answer = (data: object) => response.answers.push({ ...about, ...data } as dns2.Packet.Resource);
      if (about.type === Packet.TYPE.A) answer({ address });
      if (about.type === Packet.TYPE.TXT)
        for (const { text } of readRecords(file).filter((each) => each.name === name)) answer({ data: text });
      void send(response);
    },
  });
  await server.listen({ udp: { port, address }, tcp: { port, address } });
  return { [Symbol.asyncDispose]: async () => void (await server.close()) };
}
