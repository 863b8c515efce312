"use strict";
// Text goes in by textContent only, so that nothing in the document is markup.

function make(tag, text, ...children) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function resolve(api, schema) {
  while (schema && schema.$ref) {
    schema = schema.$ref.split("/").slice(1).reduce((at, key) => at[key], api);
  }
  return schema || {};
}

function typeName(api, schema) {
  const name = schema.$ref ? schema.$ref.split("/").pop() : "";
  const target = resolve(api, schema);
  if (target.enum) return target.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = target.oneOf || target.anyOf;
  if (choices) return choices.map((choice) => choice.const ? JSON.stringify(choice.const) : typeName(api, choice)).join(" | ");
  const types = [].concat(target.type || "any");
  if (types.includes("array")) return "[" + typeName(api, target.items || {}) + "]";
  if (name && types.includes("object")) return name;
  return types.join(" | ");
}

function nested(api, schema) {
  const target = resolve(api, schema);
  if (target.items) return nested(api, target.items);
  for (const choice of target.oneOf || target.anyOf || []) {
    const found = nested(api, choice);
    if (found) return found;
  }
  return target.properties ? schema : null;
}

function table(api, schema, prefix, rows) {
  const target = resolve(api, schema);
  const required = new Set(target.required || []);
  for (const [name, property] of Object.entries(target.properties || {})) {
    const type = make("td", typeName(api, property));
    type.className = "type";
    let about = property.description || resolve(api, property).description || "";
    if (property.default !== undefined) about += " Default " + JSON.stringify(property.default) + ".";
    if (required.has(name)) about += " Required.";
    rows.append(make("tr", "", make("td", "", make("code", prefix + name)), type, make("td", about.trim())));
    const inner = nested(api, property);
    if (inner && prefix.split(".").length < 4) table(api, inner, prefix + name + ".", rows);
  }
  return rows;
}

function show(api, title, schema) {
  const parts = [make("h3", title)];
  if (schema) parts.push(table(api, schema, "", make("table")));
  return parts;
}

function route(api, method, path, operation) {
  const heading = make("h2", "", make("span", method.toUpperCase()), document.createTextNode(path));
  heading.firstChild.className = "method";
  const section = make("section", "", heading);
  section.id = operation.operationId;
  section.append(make("p", [operation.summary, operation.description].filter(Boolean).join(". ")));
  const query = (operation.parameters || []).map((parameter) => make("tr", "",
    make("td", "", make("code", parameter.name)), make("td", "in " + parameter.in), make("td", parameter.description || "")));
  if (query.length) section.append(make("h3", "Parameters"), make("table", "", ...query));
  for (const content of Object.values((operation.requestBody || {}).content || {})) {
    section.append(...show(api, "Request", content.schema));
  }
  for (const [status, answer] of Object.entries(operation.responses || {})) {
    const response = resolve(api, answer);
    const kinds = Object.entries(response.content || {});
    if (!kinds.length) section.append(make("h3", status + " " + (response.description || "")));
    for (const [kind, content] of kinds) section.append(...show(api, status + " " + kind, content.schema));
  }
  return section;
}

async function main() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error("openapi.json: " + answer.status);
  const api = await answer.json();
  document.getElementById("about").textContent = api.info.description || "";
  const list = make("ul");
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const link = make("a", method.toUpperCase() + " " + path);
      link.href = "#" + operation.operationId;
      list.append(make("li", "", link));
      document.getElementById("routes").append(route(api, method, path, operation));
    }
  }
  document.getElementById("index").append(list);
}

main().catch((error) => { document.getElementById("about").textContent = String(error); });
