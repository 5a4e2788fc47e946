import { z } from "zod";

const port = z.int().min(1).max(65_535);

/** A number that only rises; written as text, since JSON numbers end at 2^53. */
const generation = z.string().regex(/^[0-9]{1,19}$/);

/** In the directory that a machine's agent and its database proxy share. The agent writes all but the state. */
export const entranceFiles = {
  entrances: "entrances.json",
  state: "entrances-state.json",
  /** PEM: what edges know the machine by, for the key of its certificate. It names the machine's address. */
  certificate: "entrance-certificate.pem",
} as const;

export const entrancesMax = 10_000;

/**
 * Where edges reach the apps of a machine: its proxy listens at ports of the machine's own address, lets in edges of the
 * cluster, and passes on what they say. A file takes the place of the one before as a whole.
 */
export const entrances = z.strictObject({
  /** Rises with each file. */
  generation,
  address: z.ipv4(),
  entrances: z
    .array(z.strictObject({ port, to: z.strictObject({ host: z.ipv4(), port }) }))
    .max(entrancesMax)
    .refine((all) => new Set(all.map((each) => each.port)).size === all.length, "no port may be there twice"),
});
export type Entrances = z.output<typeof entrances>;
export type EntranceTarget = Entrances["entrances"][number]["to"];

/**
 * What the proxy says of its entrances. That there is such a file tells that it knows them at all: one of an earlier version
 * never writes it.
 */
export const entrancesState = z.strictObject({
  /** Of the file in force; "0" while there is none. */
  generation,
  /** Ports at which it is to listen, and cannot yet. */
  missing: z.array(port).max(entrancesMax),
});
export type EntrancesState = z.output<typeof entrancesState>;
