import { type DatabaseVolumeView, plural } from "@svc/proto";
import { droppedName, listVolumes, ownerName } from "../../../admin-databases/volumes.ts";
import { command } from "../../../command.ts";
import { formatAge, formatBytes, formatDuration } from "../../../format.ts";
import { listing } from "../../../listing.ts";

const reasons = {
  dropped: "database was dropped",
  replaced: "another took its place",
  lost: "machine was lost",
  copy: "copy that has ended",
} as const satisfies Record<DatabaseVolumeView["why"], string>;

export const adminDbVolumes = command({
  name: "admin db volumes",
  summary: "List volumes that databases had, why they are kept, and when they go",
  details:
    "Volumes of databases that were dropped, that another took the place of, or whose machine was declared lost, and copies that have ended. What machines have and nobody knows is listed as well; it is never removed. A database that was dropped comes back with `svc admin db undrop`.",
  examples: ["svc admin db volumes"],
  async run(context) {
    const { volumes, unknown, dropped } = await listVolumes(await context.api());
    return { volumes, unknown, dropped };
  },
  render: ({ volumes, unknown, dropped }, screen) => {
    const { paint, now } = screen;
    const goes = ({ kept, purgeAt }: DatabaseVolumeView): string => {
      if (kept) return "kept until deleted";
      if (purgeAt === null) return "-";
      const leftMs = Date.parse(purgeAt) - now.getTime();
      return leftMs <= 0 ? "now" : `in ${formatDuration(leftMs)}`;
    };
    const rows = volumes.map((volume) => [
      volume.name,
      ownerName(volume),
      `${volume.node?.name ?? "-"}${volume.nodeLost ? paint("red", " (lost)") : ""}`,
      String(volume.generation),
      reasons[volume.why],
      volume.sizeBytes === null ? "-" : formatBytes(volume.sizeBytes),
      goes(volume),
    ]);
    const titles = ["VOLUME", "DATABASE", "MACHINE", "GENERATION", "WHY", "SIZE", "GOES"];
    const back = dropped.flatMap((each) => {
      const name = droppedName(each);
      return name === null ? [] : [`  ${name} (${each.engine}), ${formatAge(each.droppedAt, now)}: ${each.id}`];
    });
    return [
      listing(titles, rows, screen, { alignRight: [3, 5] }),
      "",
      paint("dim", plural(volumes.length, "volume")),
      ...(back.length === 0 ? [] : ["", paint("dim", "DROPPED"), ...back]),
      ...(unknown.length === 0
        ? []
        : ["", paint("dim", "KNOWN TO NOBODY"), ...unknown.map(({ name, node }) => `  ${name} on ${node.name}`)]),
    ].join("\n");
  },
});
