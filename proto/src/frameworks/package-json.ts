/** What is read of a `package.json`. Everything may be missing or of another type: a user wrote it. */
export interface PackageJson {
  name: string | null;
  main: string | null;
  packageManager: string | null;
  scripts: ReadonlyMap<string, string>;
  /** Names of all packages that it depends on, in whatever way. */
  dependencies: ReadonlySet<string>;
  /** Of these the packages that are left out where it only runs. */
  developmentOnly: ReadonlySet<string>;
  /** Of these the packages that come out of the same workspace. */
  siblings: ReadonlySet<string>;
  hasWorkspaces: boolean;
  /** Whether something that is installed comes out of the tree, other than a package of the workspace. */
  hasLocalDependencies: boolean;
  hasPrograms: boolean;
}

/** Reads a `package.json`; null when it is not a JSON object. */
export function parsePackageJson(text: string): PackageJson | null {
  const value = parseObject(text);
  if (value === null) return null;
  const dependencies = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((key) =>
    Object.entries(asObject(value[key]) ?? {}),
  );
  const from = (scheme: RegExp): string[] =>
    dependencies.filter(([, spec]) => typeof spec === "string" && scheme.test(spec)).map(([name]) => name);
  return {
    name: asText(value["name"]),
    main: asText(value["main"]),
    packageManager: asText(value["packageManager"]),
    scripts: new Map(
      Object.entries(asObject(value["scripts"]) ?? {}).flatMap(([name, script]) =>
        typeof script === "string" ? [[name, script] as const] : [],
      ),
    ),
    dependencies: new Set(dependencies.map(([name]) => name)),
    developmentOnly: new Set(
      Object.keys(asObject(value["devDependencies"]) ?? {}).filter(
        (name) => asObject(value["dependencies"])?.[name] === undefined,
      ),
    ),
    siblings: new Set(from(/^workspace:/)),
    hasWorkspaces: value["workspaces"] !== undefined,
    hasLocalDependencies: from(/^(?:file|link|portal):/).length > 0,
    hasPrograms: value["bin"] !== undefined,
  };
}

/** A JSON object; null for anything else. */
export function parseObject(text: string): Record<string, unknown> | null {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return null;
  }
}

export const asObject = (value: unknown): Record<string, unknown> | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;

const asText = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
