use std::sync::Arc;
#[derive(Clone)]
pub struct Audit(pub Arc<dyn sandbox_store::AuditStore>);
impl Audit {
    pub fn depth(&self) -> usize {
        3
    }
    pub async fn record(&self, r: sandbox_store::AuditRecord) {
        let _ = self.0.append(&[r]).await;
    }
}
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
