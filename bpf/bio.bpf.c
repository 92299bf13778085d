// SPDX-License-Identifier: GPL-2.0
/*
 * Devices that are made of others (device mapper, md) take bios and have no requests: what they get is recorded as a request
 * that is issued when it is queued. Its place and length are kept, because those of the bio itself change on its way.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct block_said);
} block_bios SEC(".maps");

#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2

/* (bio); until 5.11 the queue came first. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	struct gendisk *disk = bio->bi_bdev->bd_disk;
	struct block_said said = {};
	u64 id;

	if (disk->queue->mq_ops || !wanted_here())
		return 0;
	said.sector = bio->bi_iter.bi_sector;
	said.device = block_number(disk);
	said.bytes = bio->bi_iter.bi_size;
	said.op = bio->bi_opf & REQ_OP_MASK;
	if (said.op == REQ_OP_WRITE && !said.bytes)
		said.op = REQ_OP_FLUSH;
	id = block_id(ctx, 0);
	bpf_map_update_elem(&block_bios, &(u64){ (u64)bio }, &said, BPF_ANY);
	return block_write(BLOCK_ISSUE, &said, id, stack_here(ctx, STACK_ISSUE, 0));
}

/* (queue, bio) */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, struct request_queue *queue, struct bio *bio)
{
	u64 key = (u64)bio;
	struct block_said *queued = bpf_map_lookup_elem(&block_bios, &key), said;

	if (!queued)
		return 0;
	said = *queued;
	bpf_map_delete_elem(&block_bios, &key);
	if (!wanted_here())
		return 0;
	said.error = block_errno(bio->bi_status);
	return block_write(BLOCK_COMPLETE, &said, block_id(ctx, 1), nothing());
}
