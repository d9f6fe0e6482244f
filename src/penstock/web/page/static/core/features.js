// What this server can do, by its schema: what is not there is not shown.

export class Features {
  constructor() {
    this.paths = null;
  }

  /** Read the schema. Its paths are without the prefix of the API. */
  async learn(api) {
    const schema = await api.get("/openapi.json");
    this.paths = new Map(Object.entries(schema.paths).map(([path, methods]) => [path.replace(/^\/api\/v1/, ""), methods]));
    this.version = schema.info.version;
  }

  has(path, method = "get") {
    return this.paths?.get(path)?.[method] !== undefined;
  }
}
