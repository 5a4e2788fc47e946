/** What a directory holds, as far as it tells what kind of project is in it. */
export interface Facts {
  /** Paths with `/`, without what is installed (`node_modules`) and without `.git`. */
  files: ReadonlySet<string>;
  /** Texts of those of them that `tells` names; what is not there was not read. */
  texts: ReadonlyMap<string, string>;
}
