import { readFile, stat } from "node:fs/promises";
import { Reader, type Response } from "mmdb-lib";
import { z } from "zod";
import type { Log } from "../log.ts";

/** ISO 3166-1 alpha-2 of an address; null where nobody knows. */
export type CountryOf = (address: string) => string | null;

/** Of the databases that there are, some name it at the top and some within. */
const entry = z.union([
  z.object({ country_code: z.string() }).transform((found) => found.country_code),
  z.object({ country: z.object({ iso_code: z.string() }) }).transform((found) => found.country.iso_code),
]);
const code = /^[A-Z]{2}$/;
/** It is held in memory. */
const bytesMax = 256 * 1024 * 1024;

/** Without a file, or with one that cannot be read, no country is known: that keeps nobody from serving sites. */
export async function openCountries(path: string | null, log: Log): Promise<CountryOf> {
  if (path === null) return () => null;
  try {
    if ((await stat(path)).size > bytesMax) throw new Error("it is too large");
    const reader = new Reader<Response>(await readFile(path));
    return (address) => countryIn(reader, address);
  } catch (err) {
    log.error({ path, err }, "SVC_GEO_DB cannot be read: no countries are counted");
    return () => null;
  }
}

function countryIn(reader: Reader<Response>, address: string): string | null {
  try {
    const { data } = entry.safeParse(reader.get(address));
    return data !== undefined && code.test(data) ? data : null;
  } catch {
    // It is no address, or the file is damaged at this place.
    return null;
  }
}
