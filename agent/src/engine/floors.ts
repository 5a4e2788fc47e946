/** What an engine says of itself and of the programs under it. */
export interface EngineVersions {
  /** Of the engine; its builder comes with it and has no version that it tells. Such as `20.10.24+dfsg1`. */
  version: string;
  /** Empty where the engine does not say. */
  containerd: string;
  runc: string;
  /** Whether root in a container, and in a build step, is nobody on the host. */
  isRemapped: boolean;
}

/** The oldest versions of one program without a known way from a Dockerfile to the host, the newest line last. */
interface Floor {
  program: string;
  since: readonly string[];
  mends: string;
}

const builder: Floor = {
  program: "Docker",
  since: ["24.0.9", "25.0.2"],
  mends: "CVE-2024-23651, CVE-2024-23652 and CVE-2024-23653 of its builder",
};
const containerd: Floor = { program: "containerd", since: ["1.5.10", "1.6.1"], mends: "CVE-2022-23648" };
const runc: Floor = {
  program: "runc",
  since: ["1.2.8", "1.3.3", "1.4.0"],
  mends: "CVE-2024-21626, CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
};

/**
 * Whether the engine's builder removes the mount points of a step by their path after the step has ended, wherever
 * that leads by then (CVE-2024-23652). The daemon itself does it, so user namespaces are no help.
 */
export const leavesStubs = ({ version }: Pick<EngineVersions, "version">): boolean => !reaches(version, builder);

/**
 * Why users' Dockerfiles must not be built with this engine; null when they may be. A distribution that mends an old
 * version in place does not say so in the version, so such an engine has to be remapped, too.
 */
export function dockerfileProblem(versions: EngineVersions): string | null {
  if (versions.isRemapped) return null;
  const parts = [
    { floor: builder, version: versions.version },
    { floor: containerd, version: versions.containerd },
    { floor: runc, version: versions.runc },
  ];
  const old = parts.filter(({ floor, version }) => !reaches(version, floor));
  if (old.length === 0) return null;
  const found = old.map(({ floor, version }) => {
    const said = version === "" ? "of an unknown version" : version;
    return `${floor.program} ${said} lacks the mends of ${floor.mends} (${floor.since.join(", ")} or newer)`;
  });
  return `${found.join("; ")}, and the engine does not remap users`;
}

/** A version reaches a floor that its own line has, and any that is newer than all lines. */
function reaches(version: string, { since }: Floor): boolean {
  const found = parse(version);
  if (found === null) return false;
  const floors = since.map(parse).filter((floor) => floor !== null);
  const newest = floors.at(-1);
  if (newest === undefined || compare(found, newest) > 0) return true;
  const ofLine = floors.find((floor) => floor[0] === found[0] && floor[1] === found[1]);
  // A candidate for the very version that mends comes before it.
  return ofLine !== undefined && compare(found, ofLine) >= (candidate.test(version) ? 1 : 0);
}

type Numbers = readonly [number, number, number];

/** The three numbers in front of whatever a distribution adds. */
function parse(version: string): Numbers | null {
  const match = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version);
  return match === null ? null : [Number(match[1]), Number(match[2]), Number(match[3])];
}

const candidate = /^v?\d+\.\d+\.\d+[-~](?:rc|alpha|beta)/;

const compare = (a: Numbers, b: Numbers): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
