// @pure
import type { DatabaseEngine } from "@svc/proto";

/**
 * Whether a copy that has a server's log until `position` has it until `wanted`. Both are the server's own words: of Postgres a
 * place in its log (`16/B374D848`), of MariaDB a file and an offset (`binlog.000007:4711`) or the transactions of each domain
 * (`0-1-270`). What cannot be compared is not reached.
 */
export function hasReached(engine: DatabaseEngine, position: string, wanted: string): boolean {
  const [is, has] = engine === "postgres" ? [readLsn(position), readLsn(wanted)] : [null, null];
  if (engine === "postgres") return is !== null && has !== null && is >= has;
  const [file, wantedFile] = [readFile(position), readFile(wanted)];
  if (file !== null && wantedFile !== null) {
    return file.base === wantedFile.base && (file.number - wantedFile.number || file.offset - wantedFile.offset) >= 0;
  }
  const [seen, asked] = [readGtids(position), readGtids(wanted)];
  return (
    seen !== null && asked !== null && [...asked].every(([domain, sequence]) => (seen.get(domain) ?? -1n) >= sequence)
  );
}

function readLsn(text: string): bigint | null {
  const [, high, low] = /^([0-9A-F]{1,8})\/([0-9A-F]{1,8})$/i.exec(text) ?? [];
  return high === undefined || low === undefined ? null : (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

function readFile(text: string): { base: string; number: number; offset: number } | null {
  const [, base, number, offset] = /^([\w-]+)\.([0-9]{1,10}):([0-9]{1,15})$/.exec(text) ?? [];
  return base === undefined ? null : { base, number: Number(number), offset: Number(offset) };
}

/** The last transaction of each domain. A server without any has an empty text. */
function readGtids(text: string): Map<string, bigint> | null {
  const found = new Map<string, bigint>();
  for (const each of text === "" ? [] : text.split(",")) {
    const [, domain, sequence] = /^\s*([0-9]{1,10})-[0-9]{1,10}-([0-9]{1,20})\s*$/.exec(each) ?? [];
    if (domain === undefined || sequence === undefined) return null;
    found.set(domain, BigInt(sequence));
  }
  return found;
}
