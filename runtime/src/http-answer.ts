import type { IncomingMessage } from "node:http";

/**
 * Reads the body of an answer, as text.
 *
 * @param bytesMax a longer one is broken off, and rejects like one that breaks off by itself
 */
export async function readAnswer(answer: IncomingMessage, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop ends the connection.
    if (bytes > bytesMax) throw new Error("its answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
