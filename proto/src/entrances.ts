import { z } from "zod";

const port = z.int().min(1).max(65_535);

/** In the directory that a machine's agent and its database proxy share. The agent writes both. */
export const entranceFiles = {
  entrances: "entrances.json",
  /** PEM: what edges know the machine by, for the key of its certificate. It names the machine's address. */
  certificate: "entrance-certificate.pem",
} as const;

export const entrancesMax = 10_000;

/**
 * Where edges reach the apps of a machine: its proxy listens at ports of the machine's own address, lets in edges of the
 * cluster, and passes on what they say. A file takes the place of the one before as a whole.
 */
export const entrances = z.strictObject({
  address: z.ipv4(),
  entrances: z
    .array(z.strictObject({ port, to: z.strictObject({ host: z.ipv4(), port }) }))
    .max(entrancesMax)
    .refine((all) => new Set(all.map((each) => each.port)).size === all.length, "no port may be there twice"),
});
export type Entrances = z.output<typeof entrances>;
export type EntranceTarget = Entrances["entrances"][number]["to"];
